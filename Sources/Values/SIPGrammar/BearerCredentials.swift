package import Bytes

// Finds and removes credentials with the scheme Bearer (RFC 8898), which are as secret as passwords.

extension ByteString {
    /// Whether the value of an Authorization or Proxy-Authorization field has the scheme Bearer.
    package var isBearer: Bool {
        hasPrefix(ignoringCase: "bearer") && (count == 6 || self[6] <= UInt8(ascii: " "))
    }

    /// The bearer token in an Authorization or Proxy-Authorization value; `nil` for other schemes.
    package var bearerToken: ByteString? {
        guard isBearer else { return nil }
        var start = 6
        while start < count, self[start] <= UInt8(ascii: " ") { start += 1 }
        return self[start..<count]
    }
}

extension MessageFrame {
    /// The bytes of the message without Bearer credentials; `nil` if the message has none.
    package func withoutBearer() -> ByteString? {
        guard contains(.authorization) || contains(.proxyAuthorization) else { return nil }
        var kept: [UInt8] = []
        var from = 0
        for field in fields where !field.row.isEmpty {
            guard field.name == .authorization || field.name == .proxyAuthorization, bytes[field.value].isBearer else {
                continue
            }
            kept.append(bytes, from..<field.row.lowerBound)
            from = field.row.upperBound
        }
        guard from > 0 else { return nil }
        kept.append(bytes, from..<bytes.count)
        return ByteString(kept)
    }
}
