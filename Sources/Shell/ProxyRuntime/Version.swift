import CVersion

/// The version of this program.
package enum Version {
    package static let current = "0.2.0"

    /// The commit it was built from, with `+changes` where files differed from it; `unknown` in a plain `swift build`.
    package static let commit = unsafe String(cString: cversion_commit())
}
