import FoundationEssentials
package import Timekeeping

/// Reads the time zone database of this machine (Debian's package `tzdata`).
package enum TimeZoneFiles {
    private static let folder = "/usr/share/zoneinfo"

    /// The offsets of the time zone with the given name, such as `Europe/Berlin`; `nil` if the machine does not know
    /// the time zone.
    package static func offsets(of name: String) -> ZoneOffsets? {
        if name == "UTC" { return .utc }
        guard isName(name), let file = FileManager.default.contents(atPath: "\(folder)/\(name)") else { return nil }
        return ZoneOffsets(file: Array(file))
    }

    /// Whether the text has the form of a name of a time zone. Names come from clients of the API, so that no name may
    /// lead out of the folder.
    package static func isName(_ text: String) -> Bool {
        guard (1...64).contains(text.utf8.count), !text.hasPrefix("/") else { return false }
        return text.split(separator: "/", omittingEmptySubsequences: false).allSatisfy { part in
            !part.isEmpty && part.utf8.first.map(isLetter) == true
                && part.utf8.allSatisfy { isLetter($0) || "0123456789_+-".utf8.contains($0) }
        }
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (byte | 0x20) >= UInt8(ascii: "a") && (byte | 0x20) <= UInt8(ascii: "z")
    }
}
