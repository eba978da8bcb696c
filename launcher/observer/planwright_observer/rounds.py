"""Which call of an optimizer's step ends a training step."""

import collections

from planwright_observer.loops import is_within, loops_around

# Of one that does not close, before it is taken for the one that does: the one that did is gone.
ENOUGH_RECURRENCES = 3
# Of an inner loop, in one round. What makes more of them is no part of a step, but steps itself.
MOST_PASSES = 100


class Rounds:
    """A training step is a round of optimizer calls: one call, or several where there are several
    optimizers, or one that is called once per group of parameters as DeepSpeed does. `key` names
    what is stepped. The round is known when its first call comes again; until then that first call
    stands for all, so that the first step is reported at once.

    An optimizer that is stepped in a loop within the loop of another (GANs: a critic, several times)
    ends no step: the other does. That is known when the other is called for the first time, and
    then steps are to be counted anew: `count` is how many have ended since."""

    def __init__(self):
        self.first = None
        self.last = None
        self.count = 0
        self._learnt = False
        self._before = None
        self._recurrences = collections.Counter()
        self._places = {}
        self._within = {}  # by pairs of keys

    def opens(self, key):
        """Whether a call that is about to run may be the first of its training step."""
        return self.first is None or key == self.first

    def may_be_within(self):
        """Whether what ends the steps now is in a loop that another optimizer may be stepped around."""
        return len(loops_around(self._places[self.last])) > 1

    def closes(self, key, call_place):
        """Whether the call that has just run was the last of its training step. `call_place` tells of
        the code that made it, and is asked only about the last of a step and what is new."""
        closes = self._closes(key, call_place)
        self._before = key
        if closes:
            self._recurrences.clear()
            self.count += 1
            self._note_place(key, call_place)
        elif self.first is None:
            self.first = key
        return closes

    def _closes(self, key, call_place):
        if key not in self._places:
            self._note_place(key, call_place)
        if self.last is None:
            self.first = self.last = key
            return True
        if key == self.first and not self._learnt:
            self._learnt = True
            self.last = key if self._is_within(self._before, key) else self._before
        if self.count <= MOST_PASSES and self._is_within(self.last, key):
            self.first, self.last = None, key
            self._learnt, self.count = True, 0
        self._recurrences[key] += 1
        if self._has_lost_its_last(key):
            self.first = self.last = key
        return key == self.last

    def _has_lost_its_last(self, key):
        """Whether this one has come so often that the one that ends a round must be gone."""
        recurrences = self._recurrences[key]
        if recurrences == ENOUGH_RECURRENCES:
            return not self._is_within(key, self.last)
        return recurrences > MOST_PASSES

    def _is_within(self, inner, outer):
        """Whether this one is stepped in a loop within the loop of that one."""
        if (inner, outer) not in self._within:
            place = self._places[inner]
            shared = any(other == place for key, other in self._places.items() if key != inner)
            self._within[inner, outer] = is_within(place, self._places[outer], shared)
        return self._within[inner, outer]

    def _note_place(self, key, call_place):
        place = call_place()
        if self._places.get(key) != place:
            self._places[key] = place
            self._within.clear()
