"""Prove the judge.

mutants    small changes to a solution, each of which a check must notice
lint       is an exercise declared well: test data, hints, words
proof      everything that must hold for one exercise
changed    which exercises changed since a git revision
command    `make audit`: all of it, in forks, and the table
"""
