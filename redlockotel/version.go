package redlockotel

import "runtime/debug"

// notReleased is the version of a build from a working tree.
const notReleased = "(devel)"

// version returns the version of this module that go build recorded in the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return versionOf(info)
	}
	return notReleased
}

func versionOf(info *debug.BuildInfo) string {
	ours := &info.Main
	for _, m := range info.Deps {
		if m.Path == scope {
			ours = m
		}
	}
	switch {
	case ours.Path != scope:
		return notReleased
	case ours.Replace != nil:
		ours = ours.Replace
	}
	if ours.Version == "" {
		return notReleased
	}
	return ours.Version
}
