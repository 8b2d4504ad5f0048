import JSON

extension JSONValue {
    /// The JSON object in the bytes; `nil` if the bytes are not a JSON object.
    static func object(in bytes: [UInt8]) -> JSONValue? {
        guard let value = try? JSONValue(bytes), value.members != nil else { return nil }
        return value
    }

    var members: [Member]? {
        guard case .object(let members) = self else { return nil }
        return members
    }
}
