/// The differences between the local time of a time zone and UTC, with the times at which the difference changes.
///
/// The value comes from a file of the system's time zone database (RFC 8536), which the shell reads: rules get the
/// value, and read no file and no clock.
package struct ZoneOffsets: Hashable, Sendable {
    private struct Change: Hashable, Sendable {
        /// The time of the change, in seconds since 1970.
        let at: Int64
        let offset: Int64
    }

    /// The changes in the order of their times.
    private let changes: [Change]
    /// The offset before the first change, in seconds.
    private let first: Int64
    /// The rule for the times after the last change; `nil` if the last offset stays.
    private let yearly: YearlyZoneRule?

    package static let utc = ZoneOffsets(offset: 0)

    /// Creates a zone whose offset, in seconds east of UTC, never changes.
    package init(offset: Int64) {
        changes = []
        first = offset
        yearly = nil
    }

    /// The offset at the given time, in seconds east of UTC.
    package func offset(at time: UnixTime) -> Int64 {
        let seconds = time.seconds
        if let yearly, seconds >= changes.last?.at ?? .min { return yearly.offset(at: seconds) }
        return changes.last { $0.at <= seconds }?.offset ?? first
    }

    /// Reads a file of the time zone database; `nil` if the bytes are no such file.
    ///
    /// Only the second block of the file is used, because its times have 64 bits. Files of version 1 have no such
    /// block.
    package init?(file bytes: [UInt8]) {
        guard bytes.count <= Self.largestFile else { return nil }
        var reader = ZoneFileReader(bytes)
        guard let old = reader.header(), old.version >= UInt8(ascii: "2"), reader.skip(old.size(timeBytes: 4)),
            let counts = reader.header(), counts.types > 0
        else { return nil }
        var times: [Int64] = []
        for _ in 0..<counts.times { times.append(Int64(bitPattern: reader.number(8))) }
        var kinds: [Int] = []
        for _ in 0..<counts.times { kinds.append(Int(reader.number(1))) }
        var offsets: [Int64] = []
        for _ in 0..<counts.types {
            offsets.append(Int64(Int32(truncatingIfNeeded: reader.number(4))))
            _ = reader.number(2)
        }
        guard reader.skip(counts.rest(timeBytes: 8)), !reader.isBroken,
            kinds.allSatisfy({ $0 < offsets.count }), zip(times, times.dropFirst()).allSatisfy({ $0 < $1 }),
            offsets.allSatisfy({ $0.magnitude < 200_000 })
        else { return nil }
        changes = zip(times, kinds).map { Change(at: $0, offset: offsets[$1]) }
        first = offsets[0]
        yearly = reader.footer().flatMap { YearlyZoneRule($0) }
    }

    /// The largest file in the database has less than four kilobytes.
    private static let largestFile = 1 << 16
}

/// Reads the numbers of a file of the time zone database. If the file is too short, the reader returns 0 and sets
/// ``isBroken``.
private struct ZoneFileReader {
    private let bytes: [UInt8]
    private var place = 0
    private(set) var isBroken = false

    /// The header of a block: the version of the file, and the numbers of values in the block.
    struct Header {
        let version: UInt8
        let flags, standards, leaps, times, types, letters: Int

        /// The number of bytes of the block's values, with times of the given size.
        func size(timeBytes: Int) -> Int { times * (timeBytes + 1) + types * 6 + rest(timeBytes: timeBytes) }

        /// The number of bytes after the types of local time.
        func rest(timeBytes: Int) -> Int { letters + leaps * (timeBytes + 4) + standards + flags }
    }

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func number(_ count: Int) -> UInt64 {
        guard bytes.count - place >= count else {
            isBroken = true
            return 0
        }
        defer { place += count }
        return bytes[place..<place + count].reduce(0) { $0 << 8 | UInt64($1) }
    }

    mutating func skip(_ count: Int) -> Bool {
        guard bytes.count - place >= count else { return false }
        place += count
        return true
    }

    mutating func header() -> Header? {
        guard number(4) == 0x545a_6966 else { return nil }
        let version = UInt8(truncatingIfNeeded: number(1))
        guard skip(15) else { return nil }
        // No count can exceed the size of a file, so that sums of counts do not overflow.
        let counts = (0..<6).map { _ in Int(number(4)) }
        guard !isBroken, counts.allSatisfy({ $0 <= 1 << 16 }) else { return nil }
        return Header(
            version: version, flags: counts[0], standards: counts[1], leaps: counts[2], times: counts[3],
            types: counts[4], letters: counts[5])
    }

    /// The rule for later years, between two line ends at the end of the file.
    mutating func footer() -> String? {
        guard number(1) == 0x0a, let end = bytes[place...].firstIndex(of: 0x0a) else { return nil }
        return String(decoding: bytes[place..<end], as: UTF8.self)
    }
}
