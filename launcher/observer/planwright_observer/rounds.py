"""Which call of an optimizer's step ends a training step."""

import collections

# Of one that does not close, before it is taken for the one that does: the one that did is gone.
ENOUGH_RECURRENCES = 3


class Rounds:
    """A training step is a round of optimizer calls: one call, or several where there are several
    optimizers, or one that is called once per group of parameters as DeepSpeed does. `key` names
    what is stepped. The round is known when its first call comes again; until then that first call
    stands for all, so that the first step is reported at once."""

    def __init__(self):
        self.first = None
        self.last = None
        self._learnt = False
        self._before = None
        self._recurrences = collections.Counter()

    def opens(self, key):
        """Whether a call that is about to run is the first of its training step."""
        return self.first is None or key == self.first

    def closes(self, key):
        """Whether the call that has just run was the last of its training step."""
        before, self._before = self._before, key
        if self.first is None:
            self.first = self.last = key
            return True
        if key == self.first and not self._learnt:
            self._learnt, self.last = True, before
        self._recurrences[key] += 1
        if self._recurrences[key] == ENOUGH_RECURRENCES:
            self.first = self.last = key
        if key != self.last:
            return False
        self._recurrences.clear()
        return True
