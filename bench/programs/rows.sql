-- SPDX-License-Identifier: Apache-2.0
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, weight REAL, note TEXT);
INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
  SELECT i, 'name' || ((i * 7919) % 1000003), (i * 31 % 977) / 7.0, hex(i * 2654435761 % 4294967296)
  FROM n;
CREATE INDEX by_name ON t (name);
SELECT count(*) FROM (SELECT name FROM t ORDER BY note, weight);
SELECT sum(total) FROM (SELECT substr(name, 1, 6) AS start, sum(weight) AS total,
  group_concat(note) AS notes FROM t GROUP BY start ORDER BY length(notes));
DELETE FROM t WHERE id % 3 = 0;
UPDATE t SET note = note || name WHERE id % 2 = 0;
SELECT count(DISTINCT note) FROM t;
