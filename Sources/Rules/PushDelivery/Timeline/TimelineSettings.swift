package import Settings

/// The limits of the timeline: how many records the store keeps, and for how long.
package struct TimelineSettings: SettingsGroup, Hashable {
    package var maximumAge: Duration = .seconds(604_800)
    package var maximumRecords = 1_000_000

    package init() {}

    package static let schema: [Setting<TimelineSettings>] = [
        .duration(
            "max-age", in: .seconds(60) ... .seconds(31_536_000), \.maximumAge,
            "How long the store keeps the records of the timeline."),
        .integer(
            "max-records", in: 0...100_000_000, \.maximumRecords,
            "The maximum number of records of the timeline. Each record needs about 350 bytes. The daemon deletes the oldest records first. With `0`, the daemon keeps no records of the timeline."
        ),
    ]
}
