"""The best way to pair rows with columns (Kuhn and Munkres)."""

import numpy as np
import numpy.typing as npt


def best_pairs(values: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pair each row with its own column, or each column with its own row, so that the sum of values is maximal.

    Rows are added one by one. Each row finds the cheapest chain of changes to the pairs so far. Prices of rows and
    columns keep the cost of every step nonnegative, so that the chain is a shortest path.
    """
    if values.shape[0] > values.shape[1]:
        return [(row, column) for column, row in best_pairs(values.T)]
    costs = -values
    num_rows, num_columns = costs.shape
    row_prices, column_prices = np.zeros(num_rows), np.zeros(num_columns)
    row_of = np.full(num_columns, -1)
    for new in range(num_rows):
        distance = np.full(num_columns, np.inf)
        came_from = np.full(num_columns, -1)
        reached = np.zeros(num_columns, dtype=bool)
        row, column, length = new, -1, 0.0
        while row >= 0:
            through = length + costs[row] - row_prices[row] - column_prices
            shorter = ~reached & (through < distance)
            distance[shorter], came_from[shorter] = through[shorter], column
            column = int(np.where(reached, np.inf, distance).argmin())
            length = float(distance[column])
            reached[column] = True
            row = int(row_of[column])
        gains = length - distance[reached]
        paired = row_of[reached]
        row_prices[new] += length
        row_prices[paired[paired >= 0]] += gains[paired >= 0]
        column_prices[reached] -= gains
        while column >= 0:
            before = int(came_from[column])
            row_of[column] = row_of[before] if before >= 0 else new
            column = before
    return [(int(row), column) for column, row in enumerate(row_of) if row >= 0]
