package redlockmigrate

// DefaultLockTimeout is how long a driver's Lock waits by default.
const DefaultLockTimeout = defaultLockTimeout
