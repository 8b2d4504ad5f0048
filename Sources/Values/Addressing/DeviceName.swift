/// A short name for a device, which people can read and type: a letter and four letters or digits. The name depends
/// only on the device id, so it is not stored, and is the same in logs, in lists and after restarts.
///
/// A device id has 64 bits and a name only 24, so devices of different users can have the same name. The devices of one
/// user have different names, because ids with a taken name are skipped (``DeviceID/following(unless:)``).
extension DeviceID {
    /// Crockford's alphabet: all digits, and all letters except i, l and o, which resemble digits, and u, against rude
    /// words.
    private static let digits = Array("0123456789abcdefghjkmnpqrstvwxyz".unicodeScalars)
    /// The first letters of device names, by which people see that the name is no number.
    private static let letters = Array("abcdefghjkmnpqrs".unicodeScalars)

    package var name: String {
        let code = nameCode
        var name = String.UnicodeScalarView()
        name.append(Self.letters[Int(code >> 20)])
        for place in 1...4 { name.append(Self.digits[Int(code >> UInt64(20 - 5 * place) & 31)]) }
        return String(name)
    }

    /// The 24 bits of the name: Knuth's multiplicative hash, which gives consecutive ids very different names.
    private var nameCode: UInt64 { (rawValue &* 0x9e37_79b9_7f4a_7c15) >> 40 }

    package func hasSameName(as other: DeviceID) -> Bool { nameCode == other.nameCode }

    /// Whether `text` is the device's name, in upper or lower case, or its id in decimal digits.
    package func isNamed(_ text: String) -> Bool { text.lowercased() == name || text == String(rawValue) }

    /// This id, or the next higher id if another device of the user already has the name of this id. The closure
    /// `isTaken` returns whether another device of the user has the name of an id.
    package func following(unless isTaken: (DeviceID) -> Bool) -> DeviceID {
        var id = self
        // The loop is short, because a user has few devices, and there are millions of names.
        while isTaken(id) { id = DeviceID(rawValue: id.rawValue &+ 1) }
        return id
    }
}
