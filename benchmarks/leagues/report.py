"""stub"""


def print_report(rows, draw): ...
