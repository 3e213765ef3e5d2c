# SPDX-License-Identifier: Apache-2.0
"""The exporting side of memory that processes share: answers the links of other processes (``src/core/ipc_link.hpp``).

A thread listens on a Unix socket in the abstract namespace, which vanishes with the process. It hands out the file
descriptors of pools, and holds the memory of a buffer while another process has it open. Only processes of the same user
that know the key are answered; the key is in what is pickled. ``multiprocessing`` has the same for its children only, and
each of its descriptors can be fetched once.
"""

from __future__ import annotations

import atexit
import contextlib
import hmac
import os
import socket
import struct
import threading
import weakref

from . import _core

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The kinds of messages of ipc_link.hpp.
ASK_POOL, ASK_BUFFER, RETURN_BUFFER, YES, NO = b"P", b"B", b"R", b"+", b"-"
LONGEST_MESSAGE = 64
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of the other end


class _Exporter:
    """What one process offers to others."""

    def __init__(self, file_descriptor_of: Callable[[bytes], int]) -> None:
        self.pid = os.getpid()
        self.key = os.urandom(32)
        self.name = b"cucore-" + os.urandom(16).hex().encode()
        self._file_descriptor_of = file_descriptor_of
        self._lock = threading.RLock()  # a collection may end a buffer while it is held
        self._next = 1
        self._by_number: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._numbers: dict[bytes, tuple[int, weakref.ref[Any]]] = {}
        self._links: dict[socket.socket, dict[int, list[Any]]] = {}  # what each process has open
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(b"\0" + self.name)
        self._socket.listen(128)
        self._threads: set[threading.Thread] = set()
        self._start(self._accept, "cucore exporter")

    def _start(self, function: Callable[..., None], name: str, *arguments: Any) -> None:
        def run() -> None:
            try:
                function(*arguments)
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.add(thread)
        thread.start()

    # ---- this process

    def number_of(self, buffer: Any, payload: bytes) -> int:
        """What other processes ask for this buffer by; no other buffer ever gets the number."""
        with self._lock:
            known = self._numbers.get(payload)
            if known is not None and known[1]() is buffer:
                return known[0]
            number, self._next = self._next, self._next + 1

            def forget(_: Any) -> None:
                with self._lock:
                    if self._numbers.get(payload, (0,))[0] == number:
                        del self._numbers[payload]

            self._numbers[payload] = number, weakref.ref(buffer, forget)
            self._by_number[number] = buffer
            return number

    def hold(self, number: int) -> Any:
        """What keeps a buffer's memory; None when it is closed."""
        with self._lock:
            buffer = self._by_number.get(number)
        if buffer is None or buffer.is_closed:
            return None
        try:
            return _core.hold_memory(buffer)
        except RuntimeError:  # closed meanwhile
            return None

    def buffer(self, number: int) -> Any:
        """The buffer itself; None when it is gone."""
        return self._by_number.get(number)

    def close(self) -> None:
        for held in list(self._links.values()):
            held.clear()  # before the interpreter ends
        for link in [self._socket, *list(self._links)]:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
        for thread in list(self._threads):
            thread.join()

    # ---- other processes

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return  # closed
            credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(credentials)[1] != os.geteuid():
                link.close()
                continue
            self._links[link] = {}
            self._start(self._serve, "cucore export", link)

    def _serve(self, link: socket.socket) -> None:
        """Answers one process until it ends; what it held then goes back."""
        held = self._links[link]
        try:
            if not hmac.compare_digest(link.recv(LONGEST_MESSAGE), self.key):
                link.send(NO)
                return
            link.send(YES)
            while message := link.recv(LONGEST_MESSAGE):
                self._answer(link, message[:1], message[1:], held)
        except (OSError, struct.error):
            pass  # the process has ended, or this one does, or it sends what is no message
        finally:
            held.clear()
            self._links.pop(link, None)
            link.close()

    def _answer(self, link: socket.socket, kind: bytes, rest: bytes, held: dict[int, list[Any]]) -> None:
        if kind == ASK_POOL:
            fd = self._file_descriptor_of(rest)
            if fd < 0:
                link.send(NO)
            else:
                socket.send_fds(link, [YES], [fd])
            return
        (number,) = struct.unpack("=Q", rest)
        if kind == ASK_BUFFER:
            hold = self.hold(number)
            if hold is not None:
                held.setdefault(number, []).append(hold)
            link.send(NO if hold is None else YES)
        elif kind == RETURN_BUFFER and number in held:
            held[number].pop()
            if not held[number]:
                del held[number]


_mine: _Exporter | None = None
_lock = threading.Lock()


def exporter(file_descriptor_of: Callable[[bytes], int]) -> _Exporter:
    """This process's exporter, started by the first call; the argument finds pools by the bytes of their UUID."""
    global _mine
    with _lock:
        if _mine is None or _mine.pid != os.getpid():  # a forked child has no threads of its parent
            _mine = _Exporter(file_descriptor_of)
        return _mine


@atexit.register
def _end() -> None:
    """Before the interpreter ends: threads that are still there would keep modules, and what those hold."""
    global _mine
    _links.clear()
    ending, _mine = _mine, None
    if ending is not None and ending.pid == os.getpid():  # the sockets of a forked child are its parent's
        ending.close()


# ---- the importing side

_links: dict[bytes, Any] = {}


def mine(name: bytes) -> _Exporter | None:
    """This process's exporter if that is its name."""
    return _mine if _mine is not None and _mine.name == name else None


def link_to(name: bytes, key: bytes) -> Any:
    """The link to another process's exporter, opened at first use and kept: its end tells the exporter that this process is gone."""
    link = _links.get(name)
    if link is None:
        link = _links.setdefault(name, _core._IPCLink.open(name, key))
    return link


def forget_link(name: bytes) -> None:
    """After an error: the exporter may have ended."""
    _links.pop(name, None)


__all__ = ["exporter", "forget_link", "link_to", "mine"]
