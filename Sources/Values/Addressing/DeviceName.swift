/// A short name of a device for people: a letter and four letters or digits. The name is computed from the device's
/// number. Thus it is the same in the log, in every list and after every restart, and need not be stored.
///
/// A number has 64 bits and a name has 24, so two devices can have the same name. The devices of one user always have
/// different names: a new device gets no number whose name another device of the user has
/// (``DeviceID/following(unless:)``).
extension DeviceID {
    /// Crockford's alphabet. It has no i, l, o and u, which resemble other characters or form words.
    private static let digits = Array("0123456789abcdefghjkmnpqrstvwxyz".unicodeScalars)
    /// The letters with which names begin. A first letter distinguishes names from numbers.
    private static let letters = Array("abcdefghjkmnpqrs".unicodeScalars)

    package var name: String {
        let code = nameCode
        var name = String.UnicodeScalarView()
        name.append(Self.letters[Int(code >> 20)])
        for place in 1...4 { name.append(Self.digits[Int(code >> UInt64(20 - 5 * place) & 31)]) }
        return String(name)
    }

    /// The name as a number below 2^24. Consecutive device numbers give very different names, by Knuth's multiplicative
    /// hash.
    private var nameCode: UInt64 { (rawValue &* 0x9e37_79b9_7f4a_7c15) >> 40 }

    package func hasSameName(as other: DeviceID) -> Bool { nameCode == other.nameCode }

    /// Whether `text` is the device's name, in upper or lower case, or its whole number.
    package func isNamed(_ text: String) -> Bool { text.lowercased() == name || text == String(rawValue) }

    /// This number if it is free, otherwise the next free number. `isTaken` says whether another device has the
    /// number's name.
    package func following(unless isTaken: (DeviceID) -> Bool) -> DeviceID {
        var id = self
        // The loop ends soon: a user has few devices, and there are millions of names.
        while isTaken(id) { id = DeviceID(rawValue: id.rawValue &+ 1) }
        return id
    }
}
