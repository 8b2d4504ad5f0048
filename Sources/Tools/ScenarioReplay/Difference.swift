/// A difference between the expected and the actual course of a scenario.
package struct Difference: Hashable, Sendable {
    /// The part of a scenario that an event of the ladder diagram shows.
    package enum Place: Hashable, Sendable {
        /// The step with the given name.
        case step(String)
        /// The push with the given index in the sandbox's record.
        case push(Int)
    }

    /// The difference as a sentence for the terminal.
    package let sentence: String
    /// The step, or the number of the push among the pushes to its token.
    package let subject: String
    /// The push token that the difference concerns, if any.
    package var token: String?
    /// The name of the differing value, such as `status` or the path of a field.
    package let name: String
    package let expected: String
    package let seen: String
    /// The events of the ladder diagram that show the difference; empty for a missing event.
    package var places: [Place] = []
}

/// An actual value that differs from the expected value.
package struct Mismatch: Hashable, Sendable, CustomStringConvertible {
    package let name: String
    /// The subject and verb of the sentence, such as `status is`.
    package let phrase: String
    package let seen: String
    package let expected: String

    package var description: String { "\(phrase) \(seen), expected \(expected)" }
}
