"""Conclusions kept across sessions, per device and family of problems."""

from workbench.archive.recall import recall, sentences
from workbench.archive.remembering import remembering
from workbench.archive.store import Archive, Conclusion, archive_folder

__all__ = ["Archive", "Conclusion", "archive_folder", "recall", "remembering", "sentences"]
