package listing

// The bounds that tests count with.
const (
	PageSize   = pageSize
	BatchNames = batchNames
)

// Batches splits names into those that are asked for at a time.
var Batches = batches
