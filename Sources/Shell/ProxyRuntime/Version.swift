import CVersion

/// The version number of the daemon.
package enum Version {
    package static let current = "0.2.0"

    /// The commit from which the program was built, with `+changes` if files differed from the commit; `unknown` in a
    /// plain `swift build`.
    package static let commit = unsafe String(cString: cversion_commit())
}
