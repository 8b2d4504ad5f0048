/// What the reader and the framer accept at most; beyond it a message is refused, never cut.
package enum MessageLimits {
    /// Bytes of start line and header fields together with the empty line.
    package static let head = 16 * 1024
    package static let body = 64 * 1024
    /// Header rows.
    package static let rows = 128
    /// Header rows and the further values of rows that hold several.
    static let values = 256
    package static let requestURI = 2 * 1024
    package static let contacts = 20
    /// Parameters of one value: the parser's lists cost the square of their length.
    package static let parameters = 64
    /// Commas in one Authorization row, for the same reason.
    static let credentialParts = 64
}
