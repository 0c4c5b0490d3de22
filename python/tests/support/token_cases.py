# SPDX-License-Identifier: Apache-2.0
"""The contexts of contracts/golden/tokens.json: (frames innermost first, requested size in bytes).

Real symbol names where there are any; every clause of contracts/stack_tokens.md has a case.
"""

SIZES = [0, 1, 15, 16, 17, 127, 128, 129, 144, 145, 255, 256, 257, 288, 289, 511, 513, 1000, 1024]
SIZES += [4095, 4097, 20000, 32767, 32768, 32769, 65536, 65537, 1 << 20, (1 << 20) + 1, 3 << 30]
SIZES += [1 << 62, 3 << 61, 1 << 63]

C_NAMES = [
    ["zmalloc", "sdsnewlen", "createRawStringObject", "processInlineBuffer", "main"],
    ["ztrymalloc_usable", "listAddNodeTail", "addReply", "call", "aeMain", "main"],
    ["__GI___libc_malloc", "_IO_file_doallocate", "_nl_load_locale_from_archive"],
    ["je_malloc_usable_size", "lpushGenericCommand", "HTTPServerStart", "parseXML2Node"],
    ["foo.isra.0", "bar.constprop.0.cold", "baz.lto_priv.123", "qux.part.1"],
    ["A", "Ab", "aB", "AB", "ABc", "aBC", "a1B", "A1b", "1a", "12", "ABC1def", "XMLHttp2Request"],
    ["_init", "__libc_start_main", "_start", "___", "_", "x__y", "trailing_"],
    ["_RNvNtCs1234_7mycrate3foo3bar", "_R", "PyEval_EvalFrameDefault", "SSL_CTX_new"],
    ["Java_com_example_Native_alloc", "operatorNew", "caml_alloc_shr", "go.mallocgc"],
]

CXX_NAMES = [
    ["_Znwm", "_Znam", "_ZdlPv", "_ZnwmRKSt9nothrow_t", "_ZnwmSt11align_val_tRKSt9nothrow_t"],
    ["_ZNSt6vectorIiSaIiEE17_M_realloc_insertIJRKiEEEvN9__gnu_cxx17__normal_iteratorIPiS1_EEDpOT_"],
    ["_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm", "main"],
    ["_ZNSt8_Rb_treeIiSt4pairIKiSsESt10_Select1stIS2_ESt4lessIiESaIS2_EE15_M_insert_uniqueEOS2_"],
    ["_ZN3foo10HTTPServer3runEv", "_ZN3foo10HTTPServerC2Ev", "_ZN3foo10HTTPServerD0Ev"],
    ["_ZZ4mainENKUlvE_clEv", "_ZZN3net6Server5startEiENKUliE0_clEi", "_ZZN1AC4EvE1x"],
    ["_ZNSt17_Function_handlerIFvvEZ4mainEUlvE_E9_M_invokeERKSt9_Any_data"],
    ["_ZN12_GLOBAL__N_111parseHeaderEPKc", "_ZGVZN3foo3barEvE1x", "_ZTV3foo", "_ZThn16_N3fooD0Ev"],
    ["_ZN3fooplERKS_", "_ZN3foocvbEv", "_ZN3fooixEm", "_ZlsRSoRK3foo", "_ZNK3fooclEv"],
    ["_ZNSt15basic_streambufIcSt11char_traitsIcEE6setbufEPcl", "_ZNSs4_Rep9_S_createEmmRKSaIcE"],
    ["_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi", "_ZN5arrowL8kDefaultE"],
    ["_ZN4absl12lts_2023012519container_internal12raw_hash_setI3fooE6resizeEm"],
    ["_ZSt16__do_uninit_copyIPKSsPSsET0_T_S4_S3_", "_ZN1aILi10EE3fooEv", "_ZN1aILi0EE3fooEv"],
    [
        "_ZN3foo3barEv.isra.0",
        "_ZN3foo3barEv.cold",
        "_ZN3foo3barEv.part.12",
        "_ZN3fooD2Ev.lto_priv.3",
    ],
    ["_Z", "_ZN", "_Z3", "_Z3fo", "_Z3foo", "_Z03foo", "_Z003foo", "_Z0", "_Z10", "_Z1a2bc3def"],
    ["_Z4294967296a", "_Z18446744073709551617a1b", "_Z1000000000a3foo", "_Z999999999a3foo"],
    ["_Z0000000001a", "_Z00000000000000000000003foo", "_Z10000000001a"],
    ["_Z12345678901234567890123foo", "_Z3a_b", "_Z4__Ab", "_Z5A1bC2v", "_Z3___", "_Z2?a", "_Z2@#"],
    ["__Z3foo", "Z3foo", "_z3foo", " _Z3foo", "?_Z3foo"],
]

UNKNOWN_NAMES = [
    ["?redis-server+0x1a2b0", "?redis-server+0x44f10", "?libc.so.6+0x29d00", "?"],
    ["?libstdc++.so.6", "?libstdc++.so.6.0.30+0xa1b2c3", "?+0x10", "?a+0x1+0x2", "?a+", "?a+0x"],
    ["?libfoo", "??", "?a+12", "?A.B-c_d", "?[vdso]", "?[vdso]+0x600"],
]

ODD_BYTES = [
    ["caf\u00e9Latte", "\u00fcber_alloc", "\u65e5\u672c", "a\u00a0b", "\U0001f980crab"],
    ["a b", "tab\there", "new\nline", "soh\x01byte", "del\x7fete", '"quoted"', "back\\slash"],
    ["_Z5caf\u00e93foo", "_Z4caf\u00e93foo", "_Z3a b1c", "_Z2\u00e91x"],
    ["?my server+0x10", "?caf\u00e9+0x10", "?a\nb", "? "],
    ["@", "#16", "a@b", "a#b", "foo@@GLIBC_2.2.5", "<unk>", "a<b,c>::d"],
]

SHAPES = [
    [],
    [""],
    ["", ""],
    ["", "a", "", ""],
    ["a", "", "", "b"],
    ["_Znwm", "main"],
    [f"frame{i}" for i in range(31)],
    [f"frame{i}" for i in range(32)],
    [f"frame{i}" for i in range(33)],
    [f"one_two_three_{i}" for i in range(25)],
    [f"one_two_three_{i}" for i in range(26)],
    [f"a{i}_b_c_d_e" for i in range(40)],
    *(["_".join(f"{i:x}" for i in range(words))] for words in (126, 127, 128)),
    ["_".join(f"{i:x}" for i in range(126)), "x"],
    ["_".join(f"{i:x}" for i in range(125)), "x_y"],
    ["_".join(f"{i:x}" for i in range(300)), "never", "seen"],
    ["_Znwm"] * 40,
    ["x" * 300, "y" * 511, "y" * 512, "y" * 5000],
    [f"_Z506{'a' * 505}B3foo", f"_Z507{'a' * 505}B3foo", f"{'a' * 510}BcD", f"?{'m' * 507}+0x10"],
    [f"{'m' * 509}\u00e9x", f"?{'m' * 520}+0x10"],
]

STACKS = [*C_NAMES, *CXX_NAMES, *UNKNOWN_NAMES, *ODD_BYTES, *SHAPES]
CASES = [(stack, 24 + 100 * i) for i, stack in enumerate(STACKS)]
CASES += [(["malloc_caller", "main"], size) for size in SIZES]
