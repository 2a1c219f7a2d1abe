package overview

import (
	"slices"
	"strings"

	"github.com/redlock-go/redlock"
)

// LimitsOf returns the numbers of permits that waiters say their semaphore has, in order.
func LimitsOf(queue []redlock.WaiterStatus) (limits []int) {
	for i := range queue {
		if queue[i].Limit > 0 {
			limits = append(limits, queue[i].Limit)
		}
	}
	slices.Sort(limits)
	return slices.Compact(limits)
}

// DifferentLimits returns a phrase about numbers of permits that differ; "" if they agree.
func DifferentLimits(limits []int) string {
	if len(limits) < 2 {
		return ""
	}
	texts := make([]string, len(limits))
	for i, limit := range limits {
		texts[i] = itoa(limit)
	}
	last := len(texts) - 1
	return "different numbers of permits, " + strings.Join(texts[:last], ", ") + " and " + texts[last]
}
