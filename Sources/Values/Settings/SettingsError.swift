/// One error in a settings file.
package struct SettingsProblem: Hashable, Sendable, CustomStringConvertible {
    package let file: String
    /// The position of the error; `nil` if it concerns the whole file.
    package let position: YAMLPosition?
    /// A sentence without a full stop, with the expected value and the contents of the file.
    package let message: String

    /// The error in the form of compiler output: `file:line:column: message`.
    package var description: String {
        position.map { "\(file):\($0): \(message)" } ?? "\(file): \(message)"
    }
}

/// All errors of a settings file, at least one, in the order of the file.
package struct SettingsError: Error, Hashable, CustomStringConvertible {
    package let problems: [SettingsProblem]

    package init(_ problems: [SettingsProblem]) {
        self.problems = problems
    }

    /// All errors as text, each on its own line.
    package var description: String { problems.map(\.description).joined(separator: "\n") }
}

/// Collects the first hundred errors in a settings file while it is read.
package struct SettingsProblems: Sendable {
    package let file: String
    package private(set) var found: [SettingsProblem] = []

    package init(file: String) { self.file = file }

    package mutating func report(_ message: String, at position: YAMLPosition) {
        guard found.count < 100 else { return }
        found.append(SettingsProblem(file: file, position: position, message: message))
    }

    package func throwIfAny() throws(SettingsError) {
        guard found.isEmpty else {
            throw SettingsError(found.sorted { ($0.position ?? .start) < ($1.position ?? .start) })
        }
    }
}
