"""Monophonic melodies: MIDI files, piano rolls, the tunes of music21, and sound."""
