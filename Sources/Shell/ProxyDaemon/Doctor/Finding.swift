/// One line in the report of `sippushd doctor`, without any secret.
package struct Finding: Codable, Hashable, Sendable {
    package enum Level: String, Codable, Sendable, CaseIterable {
        case ok
        /// The daemon works, but the operator should know the finding.
        case note
        case wrong = "WRONG"

        /// The weight by which levels of findings are compared; a worse level weighs more.
        package var weight: Int {
            switch self {
            case .ok: 0
            case .note: 1
            case .wrong: 2
            }
        }
    }

    /// The part of the daemon or the machine that the finding is about.
    package let area: String
    package let level: Level
    package let words: String
    /// The operator's next step; `nil` if no step is needed.
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
