"""The campaign's table: what people may pass to Python functions by mistake, and what they must be told.

Rows are added to the modules by subject. A call that ends in another error than the one named here, in a message
without these words, with a changed input or with something half-written is a fault of elmokit.
"""

from tests.campaign import calls_embedding, calls_models, calls_tasks, calls_text
from tests.campaign.row import Row

ROWS: tuple[Row, ...] = (*calls_embedding.ROWS, *calls_models.ROWS, *calls_text.ROWS, *calls_tasks.ROWS)
