# SPDX-License-Identifier: Apache-2.0
"""The command `llamalloc`: registers one verb per file and reports every error in one line.

Exit codes: 0 done, 1 a problem was found or the work failed, 2 wrong use (nothing was started),
130 interrupted, 143 and 129 ended by SIGTERM and SIGHUP. Otherwise `record`, `trace` and `run` end
with the exit code of the program that they started.
"""

from __future__ import annotations

import codecs
import errno
import io
import sys

import typer

from llamalloc import __version__
from llamalloc.cli.compare import compare
from llamalloc.cli.doctor import doctor
from llamalloc.cli.record import record
from llamalloc.cli.report import report
from llamalloc.cli.run import run
from llamalloc.cli.simulate import simulate
from llamalloc.cli.top import ps, top
from llamalloc.cli.trace import trace
from llamalloc.cli.train import train
from llamalloc.formats.file_kinds import OutputError
from llamalloc.running.ending import tidy_end
from llamalloc.running.launch import LaunchError

_CLICK_ERROR = typer.BadParameter.__mro__[2]  # click's own base class, wherever typer keeps it
_ANY_BYTES = "llamalloc-any-bytes"
# Without a name: what writes to a file names it.
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PROGRAM_VERBS = {"allow_interspersed_args": False}

app = typer.Typer(
    help="A malloc that learns how long objects live. Let it learn while the program runs: "
    "run --learn. Or record a run, train a model, and run with it.",
    epilog="Start with: llamalloc doctor ./server, then llamalloc run --learn FOLDER -- ./server",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(context_settings=_PROGRAM_VERBS)(record)
app.command()(train)
app.command(context_settings=_PROGRAM_VERBS)(run)
app.command(context_settings=_PROGRAM_VERBS)(compare)
app.command()(report)
app.command()(doctor)
app.command()(top)
app.command()(ps)
app.command()(simulate)
app.add_typer(trace, name="trace")


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        print(f"llamalloc {__version__}")
        raise typer.Exit()


def _as_any_bytes(error: UnicodeError) -> tuple[bytes | str, int]:
    """Names of files come out as the bytes that they are; what the output's encoding lacks, as ?"""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("replace")(error)


def main() -> None:
    """Entry of the console script."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error(_ANY_BYTES, _as_any_bytes)
        sys.stdout.reconfigure(errors=_ANY_BYTES)
    code = call(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.close()  # writes what is left of the output
    except OSError as error:
        code = code or _complain(f"standard output: {error.strerror}", 1)
    sys.exit(code)


def call(arguments: list[str]) -> int:
    """Runs one command line; returns its exit code."""
    try:
        with tidy_end():
            return int(app(arguments, prog_name="llamalloc", standalone_mode=False) or 0)
    except _CLICK_ERROR as error:
        return _complain(_message(error))
    except (LaunchError, OutputError) as error:
        return _complain(str(error))
    except OSError as error:
        named = error.filename or ("standard output" if error.errno in _OF_WRITING else "")
        named = f"{named}: " if named else ""
        return _complain(f"{named}{error.strerror or error}", 1)
    except (KeyboardInterrupt, typer.Abort):
        return 130


def _complain(message: str, code: int = 2) -> int:
    if message:
        print(f"llamalloc: {message}", file=sys.stderr)
    return code


def _message(error: Exception) -> str:
    """click's message, with the verb whose --help explains more; empty where help was printed."""
    text = error.format_message()
    context = getattr(error, "ctx", None)
    if context is None or "NoArgsIsHelp" in type(error).__name__:
        print(text, file=sys.stderr)
        return ""
    return f"{text.rstrip('.')}; see `{context.command_path} --help`"


if __name__ == "__main__":
    main()
