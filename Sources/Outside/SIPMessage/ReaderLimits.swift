/// The limits of a message (threat T3). A message beyond them is refused, never cut.
package struct ReaderLimits: Sendable {
    /// Start line and header fields with the empty line, in bytes.
    package var head = 16 * 1024
    /// Header rows.
    package var headerFields = 128
    /// The Request-URI, in bytes. Other URIs have only the head's limit: a push token may be longer.
    package var uri = 2 * 1024
    package var body = 64 * 1024
    package var contacts = 20

    package init() {}

    /// Header rows and the further values of rows with several.
    var values: Int { 2 * headerFields }
    /// Parameters of one value.
    static let parameters = 64
    /// Commas in one Authorization row: libosip2 reads each part many times.
    static let credentialParts = 64
}
