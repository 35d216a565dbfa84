"""The lesson pipeline: one percent-format text file per lesson, every notebook generated from it.

percent    divide a lesson's source into cells, and refuse a bad one by file and line
course     all lessons together: unique ids, known exercises, live links
notebook   .ipynb as plain dictionaries, and the two notebooks made from a lesson
build      write (and run) the notebooks of the course, or say which are stale
importer   bring edits of a solution notebook back to the source
learner    read a learner's file, whatever happened to it
match      which released cell a learner's cell stands for
merge      put a release and a learner's work together, cell by cell
disk       write a file whole or not at all; backups; one command at a time
changes    put many files in place, with a journal that the next command finishes
git        ask git for facts, and tell it about results
update     bring a new release into a learner's notebooks
reset      put one exercise back to its start
driver     what git calls to merge notebooks
"""
