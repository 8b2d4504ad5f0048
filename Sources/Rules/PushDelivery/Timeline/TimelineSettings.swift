package import Settings

/// How much is kept of what was done for phones.
package struct TimelineSettings: SettingsGroup, Hashable {
    package var maximumAge: Duration = .seconds(604_800)
    package var maximumRecords = 1_000_000

    package init() {}

    package static let schema: [Setting<TimelineSettings>] = [
        .duration(
            "max-age", in: .seconds(60) ... .seconds(31_536_000), \.maximumAge, "How long a record is kept."),
        .integer(
            "max-records", in: 0...100_000_000, \.maximumRecords,
            "Records kept, about 350 bytes each; the oldest go first. 0: nothing is recorded."),
    ]
}
