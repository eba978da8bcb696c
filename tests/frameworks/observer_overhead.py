"""What a step costs with the observer against without: two processes that step in turns, so that a
machine that drifts does it to both. Fails above 1 %.

    observer_overhead.py OBSERVER_FOLDER [PAIRS]

CPU time, which others on the machine disturb least. The first two steps, which have accounts, are
told apart: their time is taken out of what the observer reports.
"""

import statistics
import subprocess
import sys
import tempfile

import ranks

ALLOWED = 0.01
STEPS = 60
WITH_ACCOUNTS = 2
PAIRS = 7


class Loop:
    def __init__(self, variables):
        self._process = subprocess.Popen([sys.executable, "timed_loop.py"], env=variables, cwd=ranks.HERE, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.seconds = []

    def step(self):
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.seconds.append(float(self._process.stdout.readline()))

    def end(self):
        self._process.communicate()


def pair(observer):
    """Seconds of the steps of both, without and with."""
    with tempfile.TemporaryDirectory() as folder:
        without, observed = [Loop(ranks.environment(observer, each, None, {})) for each in ("", folder)]
        for number in range(STEPS):
            for each in (without, observed) if number % 2 else (observed, without):
                each.step()
        without.end()
        observed.end()
        lines = [len(ranks.steps_of(each)) for each in ranks.reports_in(folder)]
    if lines != [STEPS]:
        raise RuntimeError(f"{STEPS} steps were made and {lines} observed")
    return without.seconds, observed.seconds


def main(observer, pairs=PAIRS):
    medians, differences, scans = [], [], []
    for _ in range(int(pairs)):
        without, observed = pair(observer)
        usual = slice(WITH_ACCOUNTS + 1, None)
        medians.append(statistics.median(without[usual]))
        differences.append(statistics.median(after - before for before, after in zip(without[usual], observed[usual])))
        scans.append(observed[WITH_ACCOUNTS - 1] - without[WITH_ACCOUNTS - 1])
        print(f"{1e3 * medians[-1]:8.2f} ms without, {1e3 * differences[-1]:+6.2f} ms with", flush=True)
    usual, more = statistics.median(medians), statistics.median(differences)
    print(f"a step of {1e3 * usual:.1f} ms costs {1e3 * more:+.2f} ms more with the observer, {100 * more / usual:+.2f} % "
          f"({len(medians)} pairs); a step with accounts {1e3 * statistics.median(scans):.0f} ms")
    return 0 if more <= ALLOWED * usual else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
