"""Deadlines: how long each thing that must come may take, judged while a run goes on."""
