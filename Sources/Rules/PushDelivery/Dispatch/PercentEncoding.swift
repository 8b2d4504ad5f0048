import Bytes

extension Array<UInt8> {
    /// Appends the bytes as one segment of a URL's path. All bytes except letters, digits, `-`, `_` and `~` are
    /// percent-encoded.
    mutating func append(percentEncoding bytes: ByteString) {
        for index in 0..<bytes.count {
            let byte = bytes[index]
            if byte.isASCIILetter || byte.isASCIIDigit || "-_~".utf8.contains(byte) {
                append(byte)
            } else {
                append(percentEncoded: byte)
            }
        }
    }
}
