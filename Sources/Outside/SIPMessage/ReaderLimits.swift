/// The limits of a message (threat T3). A message above them is refused, never shortened.
package struct ReaderLimits: Sendable {
    /// The maximum size of start line, header fields and empty line together, in bytes.
    package var head = 16 * 1024
    /// The maximum number of header rows.
    package var headerFields = 128
    /// The maximum size of the Request-URI in bytes. Other URIs are limited only by the head, because a push token may
    /// be longer.
    package var uri = 2 * 1024
    package var body = 64 * 1024
    package var contacts = 20

    package init() {}

    /// The maximum number of values: one for each row, and the further values of rows with several.
    var values: Int { 2 * headerFields }
    /// The maximum number of parameters of one value.
    static let parameters = 64
    /// The maximum number of commas in one Authorization row, because libosip2 reads each part many times.
    static let credentialParts = 64
}
