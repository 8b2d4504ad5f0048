/// A difference between the expected and the seen course of a scenario.
package struct Difference: Hashable, Sendable {
    /// The part of a scenario that an event of the ladder diagram belongs to.
    package enum Place: Hashable, Sendable {
        /// The step with this name.
        case step(String)
        /// The push at this index of the sandbox's record.
        case push(Int)
    }

    /// The difference as a sentence for the terminal.
    package let sentence: String
    /// The step, or the number of the push for its token.
    package let subject: String
    /// The push token that the difference concerns; `nil` if it concerns none.
    package var token: String?
    /// The name of the differing value, such as `status` or the path of a field.
    package let name: String
    package let expected: String
    package let seen: String
    /// Where the difference shows in the ladder diagram; empty for an event that is missing.
    package var places: [Place] = []
}

/// An actual value that differs from the expected value.
package struct Mismatch: Hashable, Sendable, CustomStringConvertible {
    package let name: String
    /// The subject and verb of the sentence about a difference, such as `status is`.
    package let phrase: String
    package let seen: String
    package let expected: String

    package var description: String { "\(phrase) \(seen), expected \(expected)" }
}
