/// One line of the report of `sippushd doctor`. It contains no secret.
package struct Finding: Codable, Hashable, Sendable {
    package enum Level: String, Codable, Sendable, CaseIterable {
        case ok
        /// It stops nothing, and an operator should know it.
        case note
        case wrong = "WRONG"

        /// Worse levels have higher numbers.
        package var weight: Int {
            switch self {
            case .ok: 0
            case .note: 1
            case .wrong: 2
            }
        }
    }

    /// The part of the daemon or the machine.
    package let area: String
    package let level: Level
    package let words: String
    /// What to do; `nil` if nothing needs to be done.
    package let cure: String?

    package init(_ area: String, _ level: Level, _ words: String, cure: String? = nil) {
        self.area = area
        self.level = level
        self.words = words
        self.cure = cure
    }
}

extension [Finding] {
    package var worst: Finding.Level { map(\.level).max { $0.weight < $1.weight } ?? .ok }
}
