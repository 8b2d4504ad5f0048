/// A short name of a device for people: a letter and four letters or digits. The name is computed from the device id.
/// Therefore the name is the same in the log, in every list and after every restart, and need not be stored.
///
/// A device id has 64 bits and a name only 24, so devices of different users can have the same name. The devices of one
/// user have different names, because a new device gets no id that would repeat a name
/// (``DeviceID/following(unless:)``).
extension DeviceID {
    /// Crockford's alphabet of 32 characters, without i, l, o and u, because these resemble other characters or form
    /// words.
    private static let digits = Array("0123456789abcdefghjkmnpqrstvwxyz".unicodeScalars)
    /// The letters with which names begin. The first character is a letter, so that names are not mistaken for numbers.
    private static let letters = Array("abcdefghjkmnpqrs".unicodeScalars)

    package var name: String {
        let code = nameCode
        var name = String.UnicodeScalarView()
        name.append(Self.letters[Int(code >> 20)])
        for place in 1...4 { name.append(Self.digits[Int(code >> UInt64(20 - 5 * place) & 31)]) }
        return String(name)
    }

    /// The 24 bits from which the name is made: Knuth's multiplicative hash of the device id. Consecutive ids give very
    /// different names.
    private var nameCode: UInt64 { (rawValue &* 0x9e37_79b9_7f4a_7c15) >> 40 }

    package func hasSameName(as other: DeviceID) -> Bool { nameCode == other.nameCode }

    /// Whether `text` is the device's name, in upper or lower case, or its device id in decimal digits.
    package func isNamed(_ text: String) -> Bool { text.lowercased() == name || text == String(rawValue) }

    /// The first free id, beginning with this id. `isTaken` tells whether another device has the name that an id gives.
    package func following(unless isTaken: (DeviceID) -> Bool) -> DeviceID {
        var id = self
        // The loop ends soon: a user has few devices, and there are millions of names.
        while isTaken(id) { id = DeviceID(rawValue: id.rawValue &+ 1) }
        return id
    }
}
