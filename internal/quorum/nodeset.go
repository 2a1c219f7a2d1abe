package quorum

import "math/bits"

// NodeSet is a set of nodes by index, at most 64.
type NodeSet uint64

// Has reports whether the node is in the set.
func (s NodeSet) Has(i int) bool { return s&(1<<i) != 0 }

// Add puts the node into the set.
func (s *NodeSet) Add(i int) { *s |= 1 << i }

// Remove takes the node out of the set.
func (s *NodeSet) Remove(i int) { *s &^= 1 << i }

// Len returns the number of nodes in the set.
func (s NodeSet) Len() int { return bits.OnesCount64(uint64(s)) }
