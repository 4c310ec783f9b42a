"""The last steps of a forked process that becomes a program of a container. Standard library only.

Nothing may be imported here: the process has another root by then, in which there may be no Python. That is
why the program is looked up by hand: `os.execvpe` imports a module while it looks.
"""

from __future__ import annotations

import os
import signal

from mooring.node.supervisor import START_ERROR, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from mooring.node.supervisor.protocol import ContainerRequest

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a program is looked for if the container's environment has no PATH, as upstream's runtimes do."""


def become(
    container: ContainerRequest,
    argv: list[str],
    env: dict[str, str],
    errors: int,
    enter: Callable[[], Sequence[int]],
) -> NoReturn:
    """Turns the process into the program, or writes to the pipe `errors` why not, and exits.

    `enter` goes into the container's file system and returns standard input, output and error.
    """
    try:
        # A session of its own: what the program leaves behind is one process group that can be killed, and a
        # terminal that it is given becomes its controlling one.
        os.setsid()
        for number, descriptor in enumerate(enter()):
            os.dup2(descriptor, number)
        _signals_as_by_default()
        env = dict(env)
        identity.take_on(
            container["user"], container["groups"], env, no_new_privileges=container["noNewPrivileges"]
        )
        _execute(argv, env)
    except FileNotFoundError as error:
        os.write(errors, _not_found(container["name"], argv[0], error).encode())
    except Exception as error:
        os.write(errors, f"container {container['name']}: {error}".encode())
    finally:
        # Never back into the caller: this is a copy of the supervisor, with its sockets and its loop.
        os._exit(START_ERROR)


def _signals_as_by_default() -> None:
    """A program inherits what is ignored or blocked, and a shell cannot trap what was ignored at its start.

    Python ignores SIGPIPE, and an agent that a shell started in the background ignores SIGINT and SIGQUIT: by
    them a container may be asked to end.
    """
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _execute(argv: list[str], env: dict[str, str]) -> None:
    """As execvp(3): a name without a slash is looked for in PATH. Raises `OSError`."""
    program = argv[0]
    places = [""] if "/" in program else env.get("PATH", PATH).split(":")
    refused: OSError | None = None
    for place in places:
        try:
            os.execve(os.path.join(place, program), argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refused = error  # another directory may have one that can be run
    raise refused or FileNotFoundError(2, "no such file", program)


def _not_found(name: str, command: str, error: FileNotFoundError) -> str:
    """Why a program could not be started, in words for its user."""
    missing = os.fsdecode(error.filename) if error.filename is not None else command
    if os.path.basename(missing) != os.path.basename(command):
        return f"container {name}: {error}"
    return (
        f"container {name}: command {command!r} (or its interpreter) does not exist in the container's file system: "
        "correct `command` or `image`"
    )
