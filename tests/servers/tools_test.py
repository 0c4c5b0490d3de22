# SPDX-License-Identifier: Apache-2.0
"""git, sqlite3, xz, tar, perl and bash under the library, each with a result that is checked."""

import random
from collections import Counter
from pathlib import Path

from preload import run


def make_files(folder: Path, count: int, seed: int) -> None:
    source = random.Random(seed)
    for i in range(count):
        path = folder / f"d{i % 40}" / f"f{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(str(source.random()) for _ in range(source.randrange(60))))


def test_git_history_of_thousands_of_files(tmp_path):
    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return run(["git", *identity, *words], seconds=90, cwd=tmp_path).stdout

    git("init", "-q", "-b", "main")
    for seed in range(3):
        make_files(tmp_path, 1200, seed)
        git("add", ".")
        git("commit", "-q", "-m", f"state {seed}")
    git("gc", "-q")
    git("fsck", "--full", "--strict")
    assert git("rev-list", "--count", "HEAD") == "3\n"
    assert len(git("diff", "--stat", "HEAD~2", "HEAD").splitlines()) > 1150
    assert git("status", "--porcelain") == ""


SQL = """
create table t(id integer primary key, k integer, v text);
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
  insert into t select i, i % 997, hex(zeroblob(i % 40)) || i from n;
commit;
create index by_k on t(k);
select count(*), sum(length(v)) from t;
select count(*) from t a join t b on a.k = b.k and b.id < 3000;
update t set v = v || v where k < 300;
delete from t where k between 100 and 200;
vacuum;
select count(*) from t;
pragma integrity_check;
"""


def test_sqlite_hundred_thousand_rows(tmp_path):
    done = run(["sqlite3", tmp_path / "t.db"], seconds=60, text_in=SQL)
    lengths = sum(2 * (i % 40) + len(str(i)) for i in range(1, 100_001))
    counts = Counter(i % 997 for i in range(1, 100_001))
    joined = sum(counts[i % 997] for i in range(1, 3000))
    left = 100_000 - sum(counts[k] for k in range(100, 201))
    assert done.stdout.split() == [f"100000|{lengths}", str(joined), str(left), "ok"]


def test_archives_come_back_whole(tmp_path):
    make_files(tmp_path / "in", 400, 9)
    (tmp_path / "out").mkdir()
    script = (
        "set -eu -o pipefail; tar -C in -cf - . | tee a.tar | gzip > a.tar.gz;"
        "xz -T2 -1 --block-size=200000 -k a.tar; xz -dc a.tar.xz | cmp - a.tar;"
        "gunzip < a.tar.gz | tar -C out -xf -; diff -r in out"
    )
    run(["bash", "-c", script], seconds=60, cwd=tmp_path)


def test_perl_hashes_and_strings():
    script = (
        "my %h; for my $i (1..200000) { $h{$i % 5000} .= chr(65 + $i % 26) }"
        'my $t = 0; $t += length $h{$_} for keys %h; my @s = sort map { "$_$h{$_}" } keys %h;'
        'print "$t ", scalar(@s), "\\n"; my $x = join ",", @s; $x =~ s/A+/b/g;'
        'print length($x) > 0 ? "ok\\n" : "no\\n";'
    )
    assert run(["perl", "-e", script], seconds=30).stdout == "200000 5000\nok\n"


def test_bash_arrays_and_forks():
    script = (
        "declare -A h; for i in $(seq 20000); do h[$((i % 700))]+=x; done; n=0;"
        'for k in "${!h[@]}"; do n=$((n + ${#h[$k]})); done;'
        "for i in $(seq 50); do (exit 3) || :; done;"
        "echo $n $(printf '%s\\n' \"${!h[@]}\" | sort -n | tail -1)"
    )
    assert run(["bash", "-c", script], seconds=60).stdout == "20000 699\n"
