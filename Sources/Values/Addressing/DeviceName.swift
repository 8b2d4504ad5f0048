/// A device's name for people: a letter and four letters or digits, made from its number, so that it is the same in the
/// log, in every list and after every restart, and nothing has to be stored.
///
/// A number has 64 bits and its name 24, so names repeat among all devices; those of one user differ, because new
/// devices get no number whose name another one of their user has (``DeviceID/following(unless:)``).
extension DeviceID {
    /// Crockford's alphabet: without i, l, o and u, which look like others or make words.
    private static let digits = Array("0123456789abcdefghjkmnpqrstvwxyz".unicodeScalars)
    /// Names begin with a letter, so that nobody takes one for a number.
    private static let letters = Array("abcdefghjkmnpqrs".unicodeScalars)

    package var name: String {
        let code = nameCode
        var name = String.UnicodeScalarView()
        name.append(Self.letters[Int(code >> 20)])
        for place in 1...4 { name.append(Self.digits[Int(code >> UInt64(20 - 5 * place) & 31)]) }
        return String(name)
    }

    /// The name as a number below 2^24. Devices whose numbers follow each other get names that lie far apart (Knuth's
    /// multiplicative hash).
    private var nameCode: UInt64 { (rawValue &* 0x9e37_79b9_7f4a_7c15) >> 40 }

    package func hasSameName(as other: DeviceID) -> Bool { nameCode == other.nameCode }

    /// Whether `text` names this device: its name in either case, or its whole number.
    package func isNamed(_ text: String) -> Bool { text.lowercased() == name || text == String(rawValue) }

    /// This number, or the next one whose name is free.
    package func following(unless isTaken: (DeviceID) -> Bool) -> DeviceID {
        var id = self
        // A user's devices are few, and names are millions.
        while isTaken(id) { id = DeviceID(rawValue: id.rawValue &+ 1) }
        return id
    }
}
