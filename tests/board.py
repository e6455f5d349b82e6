"""A table of measurements beside their bars, as the scripts of `./yard fleet-test` print it."""


class Board:
    def __init__(self):
        self.missed = []

    def section(self, text):
        print(f"\n== {text}", flush=True)

    def note(self, what, found, holds=True, bar=""):
        print(f"{'ok' if holds else 'MISSED':7} {what:58} {found:>22}{f'   bar {bar}' if bar else ''}",
              flush=True)
        if not holds:
            self.missed.append(what)

    def most(self, what, value, most, unit, digits=2):
        self.note(what, f"{value:.{digits}f} {unit}", value <= most, f"{most} {unit}")

    def least(self, what, value, least):
        self.note(what, str(value), value >= least, f"at least {least}")

    def equal(self, what, value, wanted):
        self.note(what, str(value), value == wanted, str(wanted))

    def plain(self, what, text):
        self.note(what, text)
