"""A real terminal (tmux) for tui and pager."""

import itertools
import os
import re
import subprocess
import time

NUMBERS = itertools.count()


class Terminal:
    """A terminal with a shell that runs one command."""

    def __init__(self, folder, command, size=(120, 40), environment="LANG=C.UTF-8"):
        self.socket = os.path.join(folder, f"tmux-{next(NUMBERS)}")
        width, height = size
        script = f"{environment} TERM=xterm-256color {command}; echo ended $?; stty -a | grep -o -- ' -\\?echo ' | tr -d ' '; sleep 60"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), script)

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-S", self.socket, *arguments], capture_output=True, text=True, check=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def see(self, *parts, seconds=20):
        """Waits until all of these texts are on the screen."""
        until = time.monotonic() + seconds
        while True:
            screen = self.screen()
            if all(part in screen for part in parts):
                return screen
            assert time.monotonic() < until, f"{parts} is not on the screen:\n{screen}"
            time.sleep(0.05)

    def matches(self, pattern, other_than=None, seconds=20):
        """Waits until the pattern is on the screen with a group other than `other_than`. Returns the group."""
        until = time.monotonic() + seconds
        while True:
            found = re.search(pattern, screen := self.screen())
            if found and found.group(1) != other_than:
                return found.group(1)
            assert time.monotonic() < until, f"{pattern}, other than {other_than}, is not on the screen:\n{screen}"
            time.sleep(0.02)

    def child(self):
        """The process ID of the program."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        until = time.monotonic() + 10
        while time.monotonic() < until:
            found = subprocess.run(["pgrep", "-P", shell, "rdmascope"], capture_output=True, text=True).stdout.split()
            if found:
                return int(found[0])
            time.sleep(0.05)
        raise AssertionError("the program does not run")

    def end(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], capture_output=True)
