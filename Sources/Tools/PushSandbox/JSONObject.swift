import JSON

extension JSONValue {
    /// Parses bytes as a JSON object; `nil` if the bytes are not a JSON object.
    static func object(in bytes: [UInt8]) -> JSONValue? {
        guard let value = try? JSONValue(bytes), value.members != nil else { return nil }
        return value
    }

    var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }
}
