# SPDX-License-Identifier: Apache-2.0
"""scripts/check_symbols.py: crafted objects and libraries, compiled here, one fault each."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from tree import ROOT

SPEC = importlib.util.spec_from_file_location(
    "check_symbols", ROOT / "scripts" / "check_symbols.py"
)
check_symbols = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_symbols)

MAP = """
LLAMALLOC_1 {
  /* comment; */
  global: malloc; free;
  local: *;
};
"""


def compile_cpp(folder: Path, text: str, *options: str) -> Path:
    """An object file of the C++ `text`."""
    source, output = folder / "a.cc", folder / "a.o"
    source.write_text(text)
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-fPIC", "-c", *options, source, "-o", output], check=True
    )
    return output


def link(folder: Path, text: str, *options: str) -> Path:
    """A shared library of `text` with the version script MAP."""
    script = folder / "exports.map"
    script.write_text(MAP)
    library = folder / "libllamalloc.so"
    command = ["gcc", "-shared", compile_cpp(folder, text), "-o", library, "-nostartfiles"]
    subprocess.run([*command, f"-Wl,--version-script={script}", *options], check=True)
    return library


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("#include <cstdlib>\nvoid* f() { return malloc(8); }", "malloc"),
        ("#include <cstdlib>\nvoid f(void* p) { free(p); }", "free"),
        ("int* f(int n) { return new int[n]; }", "_Znam"),
        ("void f() { throw 1; }", "__cxa_throw"),
        ("#include <mutex>\nstd::mutex m; void f() { m.lock(); }", "pthread_mutex_lock"),
        ("int g(); int f() { static int x = g(); return x; } int g() { return 1; }", "__cxa_guard"),
        ("#include <string>\nvoid f(std::string& s) { s.append(99, 'x'); }", "_ZSt"),
        ('#include <cstdio>\nvoid* f() { return fopen("x", "r"); }', "fopen"),
    ],
)
def test_rooms_may_not_allocate_throw_or_block(tmp_path, text, symbol):
    faults = check_symbols.check_rooms({"os": compile_cpp(tmp_path, text)})
    assert any(fault.startswith(f"os: calls {symbol}") for fault in faults), faults


def test_strict_rooms_reach_libc_only_for_plain_things(tmp_path):
    plain = "#include <cstring>\nvoid f(char* p, int n) { memset(p, n, n); }"
    assert check_symbols.check_rooms({"heap": compile_cpp(tmp_path, plain)}) == []
    system = "#include <unistd.h>\nint f() { return close(3); }"
    assert check_symbols.check_rooms({"os": compile_cpp(tmp_path, system)}) == []
    faults = check_symbols.check_rooms({"heap": compile_cpp(tmp_path, system)})
    assert faults == ["heap: calls close: not plain; ask the os room for it"]


@pytest.mark.parametrize(
    ("call", "name"), [('open("x", 0)', "open"), ("mmap(0, 1, 0, 0, 0, 0) != nullptr", "mmap")]
)
def test_decisions_make_no_system_call(tmp_path, call, name):
    text = f"#include <fcntl.h>\n#include <sys/mman.h>\nint f() {{ return {call}; }}"
    faults = check_symbols.check_rooms({"placement": compile_cpp(tmp_path, text)})
    assert faults == [f"placement: calls {name}: not plain; ask the os room for it"]
    plain = "#include <unistd.h>\nint f() { return getpid(); }"
    assert check_symbols.check_rooms({"heap": compile_cpp(tmp_path, plain)}) == []
    faults = check_symbols.check_rooms({"placement": compile_cpp(tmp_path, plain)})
    assert faults == ["placement: calls getpid: placement makes no system call"]


def test_decisions_reach_no_system_call_through_os(tmp_path):
    os_text = """namespace llamalloc {
    struct MetadataArena { void* allocate(int); };
    void* MetadataArena::allocate(int) { return this; }
    struct FileSink { bool commit(); };
    bool FileSink::commit() { return true; }
    }"""
    declared = """namespace llamalloc {
    struct MetadataArena { void* allocate(int); };
    struct FileSink { bool commit(); };
    struct Evaluator { void answer(); void load(); };
    %s
    }"""
    model = declared % "void Evaluator::answer() {} void Evaluator::load() {}"
    good = "void* f(MetadataArena& a, Evaluator& e) { return e.answer(), a.allocate(8); }"
    bad = "bool f(FileSink& s, Evaluator& e) { return e.load(), s.commit(); }"
    libraries = {}
    nothing = "int g() { return 0; }"
    texts = {"os": os_text, "predict": model, "placement": nothing, "release": nothing}
    for room, text in texts.items():
        (tmp_path / room).mkdir()
        libraries[room] = compile_cpp(tmp_path / room, text)
    libraries["learning"] = compile_cpp(tmp_path, declared % good)
    assert check_symbols.check_passed_in(libraries) == []
    libraries["learning"] = compile_cpp(tmp_path, declared % bad)
    assert check_symbols.check_passed_in(libraries) == [
        "learning: uses llamalloc::FileSink::commit() of os: let the caller pass it in",
        "learning: uses llamalloc::Evaluator::load() of predict: let the caller pass it in",
    ]


def test_rooms_between_os_and_runtime_have_no_globals(tmp_path):
    names = 'namespace { const char* kNames[] = {"a"}; int state; }\n'
    text = names + "int f(int i) { return kNames[i] ? ++state : 0; }"
    objects = {"heap": compile_cpp(tmp_path, text)}
    faults = check_symbols.check_globals(objects)
    assert faults == ["heap: global variable (anonymous namespace)::state: pass it in"]
    assert check_symbols.check_globals({"os": objects["heap"]}) == []


def test_version_script_is_read():
    assert check_symbols.exported_by_map(MAP) == {"malloc", "free"}


def test_names_beside_the_table_are_found():
    wanted = {name.symbol for name in check_symbols.contracts.exported_names()}
    static = wanted | set(check_symbols.contracts.static_names())
    shared = wanted | {name.symbol for name in check_symbols.contracts.shared_names()}
    assert check_symbols.check_table(shared, static) == []
    faults = check_symbols.check_table(shared - {"mallopt"} | {"extra"}, static - {"__mallopt"})
    assert faults == [
        "exports.map: extra is not listed",
        "exports.map: mallopt is listed but absent",
        "libllamalloc.a: __mallopt is listed but absent",
    ]


BOTH = 'extern "C" { void* malloc(unsigned long) { return 0; } void free(void*) {} %s }'


def test_product_that_keeps_its_tables_passes(tmp_path):
    library = link(tmp_path, BOTH % "")
    assert check_symbols.check_product(library, {"malloc", "free"}, set()) == []


@pytest.mark.parametrize(
    ("text", "options", "exports", "message"),
    [
        (BOTH % "", (), {"malloc"}, "exports: free is not listed"),
        (BOTH % "", (), {"malloc", "free", "calloc"}, "exports: calloc is listed but absent"),
        (BOTH % "int system(const char*); int f() { return system(0); } void* g = (void*)f;",
         ("-lc", "-Wl,-u,f"), {"malloc", "free"}, "imports system"),
        (BOTH % "", ("-z", "execstack"), {"malloc", "free"}, "executable stack"),
        (BOTH % "", ("-Wl,--no-as-needed", "-lm"), {"malloc", "free"}, "needs libm.so.6"),
        (BOTH % "thread_local char big[4096]; char* f() { return big; } void* g = (void*)f;",
         (), {"malloc", "free"}, "static TLS"),
    ],
)  # fmt: skip
def test_each_fault_of_the_product_is_named(tmp_path, text, options, exports, message):
    library = link(tmp_path, text, *options)
    faults = check_symbols.check_product(library, exports, {"__tls_get_addr"})
    assert any(message in fault for fault in faults), faults


def test_a_library_that_outgrows_its_budget_is_named(tmp_path):
    library = link(tmp_path, BOTH % "extern const char big[5000] = {1};")
    assert check_symbols.check_size(library, 50_000) == []
    (fault,) = check_symbols.check_size(library, 5000)
    assert "at most 5,000: compile what only looks at a process with llamalloc_small()" in fault
