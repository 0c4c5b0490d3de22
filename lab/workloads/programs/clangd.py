# SPDX-License-Identifier: Apache-2.0
"""clangd-19 serves an editor that opens and closes files in waves: workloads/clang/large.cc."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from lab.places import WORKLOADS
from lab.workloads.recipe import Recipe, Session, WorkloadError

_WAVES = (3, 6, 3)  # files that are open at once
_INSTANCES = 4  # of the large template, in each


class Clangd(Recipe):
    """One process. It speaks the Language Server Protocol through two named pipes."""

    name = "clangd"
    title = "clangd-19 with the files of an editor, opened and closed in three waves"
    memory = "preambles and syntax trees of each open file, which go when it is closed"
    packages = ("clangd-19", "g++")
    programs = ("clangd-19",)
    seconds = 60
    good_ends = (0, 1)  # 1: a signal has asked it to end
    _editor: _Editor | None = None

    def prepare(self, session: Session) -> None:
        """The files, how they are compiled, and the pipes."""
        if self._editor is not None:
            self._editor.close()
        self._editor = None
        flags = ["-std=c++20", f"-DINSTANCES={_INSTANCES}"]
        flags += ["-DSMALL"] if session.scale < 0.2 else []
        (session.folder / "compile_flags.txt").write_text("\n".join(flags))
        for number in range(_at_most(session)):
            shutil.copy(WORKLOADS / "clang" / "large.cc", _file(session, number))
        for end in ("in", "out"):
            os.mkfifo(session.folder / end)

    def command(self, session: Session) -> list[str]:
        """The shell that opens the pipes becomes clangd."""
        options = "--background-index=false --pch-storage=memory --clang-tidy=false -j=2"
        line = f'exec clangd-19 {options} --log=error <"$0/in" >"$0/out"'
        return ["sh", "-c", line, str(session.folder)]

    def ready(self, session: Session) -> bool:
        """Whether somebody reads what the editor says."""
        try:
            said = os.open(session.folder / "in", os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        os.set_blocking(said, True)
        self._editor = _Editor(os.fdopen(said, "wb"), (session.folder / "out").open("rb"))
        self._editor.greet(session.folder)
        return True

    def load(self, session: Session) -> None:
        """Each wave opens some files, edits them when their diagnostics are there, closes them."""
        assert self._editor is not None
        for number, count in enumerate(_WAVES):
            files = [_file(session, i) for i in range(session.scaled(count))]
            session.say(f"wave {number + 1} of {len(_WAVES)}: {len(files)} files")
            self._editor.open(files)
            self._editor.edit(files)
            self._editor.close_files(files)


def _at_most(session: Session) -> int:
    return session.scaled(max(_WAVES))


def _file(session: Session, number: int) -> Path:
    return session.folder / f"file{number}.cc"


class _Editor:
    """One end of the two pipes."""

    def __init__(self, to: BinaryIO, answers: BinaryIO) -> None:
        self._to, self._answers = to, answers

    def close(self) -> None:
        self._answers.close()
        with suppress(BrokenPipeError):  # it has ended
            self._to.close()

    def greet(self, folder: Path) -> None:
        self._say("initialize", {"processId": None, "rootUri": folder.as_uri(),
                                 "capabilities": {}}, number=1)  # fmt: skip
        while self._next().get("id") != 1:
            pass
        self._say("initialized", {})

    def open(self, files: list[Path]) -> None:
        for file in files:
            document = {"uri": file.as_uri(), "languageId": "cpp", "version": 1}
            self._say("textDocument/didOpen",
                      {"textDocument": {**document, "text": file.read_text()}})  # fmt: skip
        self._wait_for(files, 1)

    def edit(self, files: list[Path]) -> None:
        for file in files:
            text = file.read_text() + "\nint edited;\n"
            self._say("textDocument/didChange", {
                "textDocument": {"uri": file.as_uri(), "version": 2},
                "contentChanges": [{"text": text}],
            })  # fmt: skip
        self._wait_for(files, 2)

    def close_files(self, files: list[Path]) -> None:
        for file in files:
            self._say("textDocument/didClose", {"textDocument": {"uri": file.as_uri()}})

    def _wait_for(self, files: list[Path], version: int) -> None:
        """Until the diagnostics of that version of all files are there."""
        missing = {file.as_uri() for file in files}
        while missing:
            said = self._next()
            found = said.get("params", {})
            if said.get("method") != "textDocument/publishDiagnostics":
                continue
            if found.get("version") == version:  # without one: of a file that was closed
                missing.discard(found["uri"])

    def _say(self, method: str, parameters: dict, number: int | None = None) -> None:
        known = {"jsonrpc": "2.0", "method": method, "params": parameters}
        body = json.dumps(known if number is None else {**known, "id": number}).encode()
        self._to.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._to.flush()

    def _next(self) -> dict:
        length = 0
        while (line := self._answers.readline()) != b"\r\n":
            if not line:
                raise WorkloadError("clangd has ended")
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self._answers.read(length))
