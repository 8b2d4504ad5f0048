/// A device's name for people: a letter and four letters or digits, computed from its number. Thus it is the same in
/// the log, in every list and after every restart, and nothing has to be stored.
///
/// A number has 64 bits and its name 24, so devices can share a name. The devices of one user do not, because a new
/// device gets no number whose name another device of the user has (``DeviceID/following(unless:)``).
extension DeviceID {
    /// Crockford's alphabet: without i, l, o and u, which resemble other characters or form words.
    private static let digits = Array("0123456789abcdefghjkmnpqrstvwxyz".unicodeScalars)
    /// Names begin with a letter, to distinguish them from numbers.
    private static let letters = Array("abcdefghjkmnpqrs".unicodeScalars)

    package var name: String {
        let code = nameCode
        var name = String.UnicodeScalarView()
        name.append(Self.letters[Int(code >> 20)])
        for place in 1...4 { name.append(Self.digits[Int(code >> UInt64(20 - 5 * place) & 31)]) }
        return String(name)
    }

    /// The name as a number below 2^24. Devices with consecutive numbers get very different names (Knuth's
    /// multiplicative hash).
    private var nameCode: UInt64 { (rawValue &* 0x9e37_79b9_7f4a_7c15) >> 40 }

    package func hasSameName(as other: DeviceID) -> Bool { nameCode == other.nameCode }

    /// Whether `text` names this device: its name in either case, or its whole number.
    package func isNamed(_ text: String) -> Bool { text.lowercased() == name || text == String(rawValue) }

    /// This number, or the next one whose name is free.
    package func following(unless isTaken: (DeviceID) -> Bool) -> DeviceID {
        var id = self
        // A user has few devices, and millions of names exist.
        while isTaken(id) { id = DeviceID(rawValue: id.rawValue &+ 1) }
        return id
    }
}
