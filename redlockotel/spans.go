package redlockotel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlock-go/redlock"
)

const (
	// If more spans than maxOpen are open, those that are older than this are ended: their
	// end may have been dropped. A ballot takes no longer than its nodes' connections, a
	// call as long as its caller waits.
	maxOpen      = 4096
	maxBallotAge = time.Minute
	maxCallAge   = time.Hour
)

// spans are those that have begun and not ended.
type spans struct {
	tracer trace.Tracer

	mu      sync.Mutex // protects what follows
	calls   openSpans
	waits   openSpans // by their calls
	ballots openSpans
}

func newSpans(t trace.Tracer) spans {
	return spans{tracer: t, calls: newOpenSpans(maxCallAge), waits: newOpenSpans(maxCallAge), ballots: newOpenSpans(maxBallotAge)}
}

// openSpans are open spans of one kind, by their ids.
type openSpans struct {
	open    map[uint64]openSpan
	maxAge  time.Duration
	sweepAt int // the number of open spans at which add ends old ones
}

type openSpan struct {
	ctx   context.Context // the parent's, with the span
	span  trace.Span
	began time.Time
}

func newOpenSpans(maxAge time.Duration) openSpans {
	return openSpans{open: make(map[uint64]openSpan), maxAge: maxAge, sweepAt: maxOpen}
}

func (o *openSpans) add(id uint64, s openSpan) {
	o.open[id] = s
	if len(o.open) < o.sweepAt {
		return
	}
	for id, other := range o.open {
		if s.began.Sub(other.began) > o.maxAge {
			other.span.End()
			delete(o.open, id)
		}
	}
	o.sweepAt = max(maxOpen, 2*len(o.open))
}

// remove removes and returns a span.
func (o *openSpans) remove(id uint64) (openSpan, bool) {
	s, known := o.open[id]
	delete(o.open, id)
	return s, known
}

// begin opens a span.
func (t *Telemetry) begin(o *openSpans, id uint64, parent context.Context, name string, at time.Time, attributes ...attribute.KeyValue) {
	ctx, span := t.tracer.Start(parent, name, trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(t.attributes...), trace.WithAttributes(attributes...))
	o.add(id, openSpan{ctx, span, at})
}

// parentOf returns the context of a call's span; the caller's own if the call has none.
// Called under t.mu.
func (t *Telemetry) parentOf(call uint64, own context.Context) context.Context {
	if s, known := t.calls.open[call]; known {
		return s.ctx
	}
	return own
}

// setError records an error at a span.
func setError(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(errorType(err))
		span.SetStatus(codes.Error, err.Error())
	}
}

func (t *Telemetry) callStart(e redlock.CallEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(&t.calls, e.Call, e.Context, "redlock "+e.Op, e.Time, operationKey.String(e.Op), nameKey.String(e.Name))
}

func (t *Telemetry) callEnd(e redlock.CallEvent) {
	t.mu.Lock()
	s, known := t.calls.remove(e.Call)
	t.mu.Unlock()
	ctx := e.Context
	if known {
		ctx = s.ctx
		if e.Owner != "" {
			s.span.SetAttributes(ownerKey.String(e.Owner), tokenKey.Int64(e.Token), sharedKey.Bool(e.Shared))
			if e.Slots != nil {
				s.span.SetAttributes(slotsKey.IntSlice(e.Slots))
			}
		}
		setError(s.span, e.Err)
	}
	t.recordCall(ctx, e)
	if known {
		s.span.End(trace.WithTimestamp(e.Time.Add(e.Elapsed)))
	}
}

// A wait for the call's turn may be within one for the lock: it is no span of its own.
func (t *Telemetry) waitStart(e redlock.WaitEvent) {
	if e.Turn {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(&t.waits, e.Call, t.parentOf(e.Call, e.Context), "redlock wait", e.Time, nameKey.String(e.Name))
}

func (t *Telemetry) waitEnd(e redlock.WaitEvent) {
	if e.Turn {
		return
	}
	t.mu.Lock()
	s, known := t.waits.remove(e.Call)
	t.mu.Unlock()
	ctx := e.Context
	if known {
		ctx = s.ctx
		s.span.SetAttributes(positionKey.Int(e.Position))
		setError(s.span, e.Err)
		s.span.End(trace.WithTimestamp(e.Time.Add(e.Waited)))
	}
	t.recordWait(ctx, e)
}

func (t *Telemetry) ballotStart(e redlock.BallotEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(&t.ballots, e.Ballot, t.parentOf(e.Call, e.Context), "redlock ballot", e.Time,
		ballotKey.String(e.Op), nameKey.String(e.Name), ownerKey.String(e.Owner))
}

func (t *Telemetry) ballotVote(e redlock.BallotVote) {
	t.mu.Lock()
	s, known := t.ballots.open[e.Ballot]
	t.mu.Unlock()
	ctx := e.Context
	if known {
		ctx = s.ctx
	}
	if known && s.span.IsRecording() {
		s.span.AddEvent("vote", trace.WithTimestamp(e.Time.Add(e.Latency)), trace.WithAttributes(voteOf(&e)...))
	}
	t.recordVote(ctx, e)
}

// voteOf returns the attributes of a vote's event.
func voteOf(e *redlock.BallotVote) []attribute.KeyValue {
	all := append(nodeOf(e.Index, e.Node), outcomeKey.String(word(string(e.Outcome))), latencyKey.Float64(e.Latency.Seconds()))
	if e.Cause != nil {
		all = append(all, attribute.String("exception.message", e.Cause.Error()))
	}
	return all
}

func (t *Telemetry) ballotEnd(e redlock.BallotEvent) {
	t.mu.Lock()
	s, known := t.ballots.remove(e.Ballot)
	t.mu.Unlock()
	ctx := e.Context
	if known {
		ctx = s.ctx
		s.span.SetAttributes(outcomeKey.String(word(string(e.Outcome))),
			grantedKey.Int(e.Granted), refusedKey.Int(e.Refused), silentKey.Int(e.Silent))
		if e.Outcome == "unknown" || e.Outcome == "not sent" {
			s.span.SetStatus(codes.Error, "no quorum of answers")
		}
	}
	t.recordBallot(ctx, e)
	if known {
		s.span.End(trace.WithTimestamp(e.Time.Add(e.Elapsed)))
	}
}
