# SPDX-License-Identifier: Apache-2.0
"""The model behind contracts/golden/model_v3.*: small, random, decided in its answers."""

import jax.numpy as jnp
import numpy as np

from llamalloc.formats.frame_names import caller_key, name_key
from llamalloc.formats.learned_state import (
    Gate,
    GateVerdict,
    GateWaste,
    code_key,
    hash_build_id,
    key_of,
)
from llamalloc.formats.model_file import DEEPER, OPEN, SIZE_ROWS, Evidence, Model, Weights
from llamalloc.learning import bag_of_frames, dataset
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.lookup import Lookup

EMBEDDING, DEPTHS, HIDDEN = 8, 5, 12
GATE = Gate(GateVerdict.ON_TRIAL, 0, GateWaste(3, 50, 350, 420, 1650), peak=500)
_WORDS = "zmalloc sds newlen create raw string object process buffer call main db add dict set list"
_WORDS += " push node reply command accept conn read query event loop ae client vector m realloc"
_WORDS += " insert ?redis-server ?redis-server+0x1a2b0 ?libc.so.6 ? a9 x"


def model() -> Model:
    """Weights from numpy's generator, the same on every machine; `le_10s` where it knows no word
    but those of every stack."""
    words = ["<unk>", "@", *_WORDS.split()]
    random = np.random.default_rng(20)
    c, h, e = len(CLASS_NAMES), HIDDEN, EMBEDDING
    shapes = Weights((len(words), e), (DEPTHS, e), (e, h), (SIZE_ROWS, h), (h, c), (c,))
    scales = Weights(4.0, 0.7, 0.5, 0.7, 0.4, 0.3)
    arrays = [
        (scale * random.standard_normal(shape)).astype(np.float32)
        for scale, shape in zip(scales, shapes, strict=True)
    ]
    weights = Weights(*arrays)
    weights.embedding[[words.index(word) for word in ("main", "call", "?", "?libc.so.6")]] = 0
    weights.dense_bias[CLASS_NAMES.index("le_10s")] += 8
    return Model(tuple(words), weights, "tail", _evidence(), gate=GATE)


BUILD = hash_build_id(bytes(range(20)))
CODES = tuple(code_key(BUILD, offset) for offset in (0x1A2B3, 0x4C5D6, 0x7E8F9))
BRIEF, NEVER, LE_10MS = (CLASS_NAMES.index(name) for name in ("le_10s", "never", "le_10ms"))
MIXED = CLASS_NAMES.index("mixed")


def _evidence() -> Evidence:
    """One decided site, and one that needs size and caller; names the same; callers."""
    exact = {
        key_of(CODES[1]): LE_10MS,
        key_of(CODES[0]): DEEPER,
        key_of(CODES[0], 64): DEEPER,
        key_of(CODES[0], 64, CODES[1]): NEVER,
    }
    pool, create, insert = (name_key(name) for name in ("pool_get", "create", "insert"))
    names = {
        key_of(pool): (DEEPER, NEVER),
        key_of(pool, 64): (DEEPER, LE_10MS),
        key_of(pool, 64, create): (BRIEF, BRIEF),
        key_of(pool, 64, insert): (OPEN, NEVER),
        key_of(caller_key("serve")): (OPEN, LE_10MS),
        key_of(caller_key("serve"), 128): (OPEN, NEVER),
        key_of(caller_key("?app.so+0x10")): (OPEN, BRIEF),
    }
    keys, named = sorted(exact), sorted(names)
    return Evidence(
        np.array(keys, np.uint64),
        np.array([exact[key] for key in keys], np.uint8),
        np.arange(40, 40 + len(keys), dtype=np.uint32),
        np.array(named, np.uint64),
        np.array([names[key] for key in named], np.uint8),
        np.arange(70, 70 + len(named), dtype=np.uint32),
        table_trust=np.array([0.99, 0.95], np.float32),
        prior_trust=np.array([-1, 0.75, 0.25, 0.5], np.float32),
        network_trust=np.array([0.75, 0.5, 0.25, -1], np.float32),
    )


def lookups(golden: Model) -> list[dict]:
    """Contexts, and what the tables say of them."""
    lookup = Lookup(golden.evidence)
    cases = [
        (CODES[1:], ("any", "main"), 16),
        (CODES, ("any", "main", "start"), 64),
        (CODES, ("pool_get", "create", "main"), 32),
        (CODES[:1], ("pool_get",), 64),
        ((CODES[0], CODES[2]), ("pool_get", "other"), 64),
        ((0, 0), ("pool_get.part.0", "create.constprop.1"), 64),
        ((0, 0), ("pool_get", "insert"), 64),
        ((0, 0), ("pool_get", "insert"), 80),
        ((0, 0, 0), ("fresh", "serve", "main"), 128),
        ((0, 0, 0), ("fresh", "serve", "main"), 48),
        ((0,), ("?redis-server+0x1a2b0",), 48),
        ((0, 0), ("?app.so+0x1a2b0", "serve"), 48),
        ((0,) * 10, ("f",) * 8 + ("serve", "main"), 48),
        ((), (), 48),
    ]
    found = []
    for codes, frames, size in cases:
        answer = lookup.find(codes, frames, size)
        found.append(
            {"codes": list(codes), "frames": list(frames), "size": size, "kind": answer.kind,
             "class": CLASS_NAMES[answer.lifetime], "network": int(lookup.asks_network(answer))}
        )  # fmt: skip
    return found


def cases(golden: Model) -> list[dict]:
    """Token sequences, their ids and the class probabilities that JAX gives."""
    random = np.random.default_rng(21)
    known = [word for word in golden.vocabulary[2:] for _ in range(2)] + ["@"] * 20
    sequences = [
        ["#16"],
        ["#48"],
        ["zmalloc", "@", "sds", "newlen", "@", "main", "#1024"],
        ["?redis-server", "?redis-server+0x1a2b0", "@", "?", "#32"],
        ["unheard", "of", "@", "altogether", "#99"],
        ["<unk>", "@", "main", "#16"],
        ["main", "@", "unheard", "of", "main", "x", "#8589934592"],
        ["@"] * 31 + ["#65536"],
        *(
            [*(str(random.choice(known)) for _ in range(n)), f"#{16 << n % 9}"]
            for n in (1, 2, 17, 40, 126, 127)
        ),
    ]
    encoded = dataset.encode(sequences, golden.vocabulary)
    weights = Weights(*map(jnp.asarray, golden.weights))
    results = np.asarray(bag_of_frames.probabilities(weights, *encoded))
    numbers = {token: number for number, token in enumerate(golden.vocabulary)}
    return [
        {
            "tokens": sequence,
            "ids": [numbers.get(token, 0) for token in sequence],
            "probabilities": row.tolist(),
        }
        for sequence, row in zip(sequences, results, strict=True)
    ]
