"""All wrong command lines. They run in a copy of the workspace, where no file may change and none may be left."""

from tests.campaign import commands_reading, commands_training, commands_writing
from tests.campaign.command_row import Row

ROWS: list[Row] = [*commands_reading.ROWS, *commands_writing.ROWS, *commands_training.ROWS]
