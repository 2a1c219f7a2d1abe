package operate

// The bounds that tests count with.
const (
	PageSize   = pageSize
	BatchNames = batchNames

	BatchSemaphores = batchSemaphores
	Places          = len(places)
)

// Batches splits names into those that are asked for at a time.
func Batches(names []string) [][]string { return batches(names, batchNames) }
