package redlockotel

import "sync"

// maxNames is how many names stand in metrics. A name of its own for each order or user would fill the memory of
// who collects them.
const maxNames = 100

// otherName stands for all names after the first maxNames.
const otherName = "other"

// names bounds what stands for locks' names in metrics.
type names struct {
	mu    sync.Mutex // protects known
	known map[string]bool
}

// bound returns the name if it is among the first maxNames that it was given, else otherName.
func (n *names) bound(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.known[name]:
		return name
	case len(n.known) >= maxNames:
		return otherName
	case n.known == nil:
		n.known = make(map[string]bool)
	}
	n.known[name] = true
	return name
}
