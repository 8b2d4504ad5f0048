/// The limits for the size of a SIP message and its parts (threat T3). A message above a limit is refused.
package struct ReaderLimits: Sendable {
    /// The maximum size in bytes of start line, header fields and empty line together.
    package var head = 16 * 1024
    /// The maximum number of header fields in one message.
    package var headerFields = 128
    /// The maximum size of the Request-URI in bytes. Other URIs have no such limit, because they may contain long push
    /// tokens.
    package var uri = 2 * 1024
    package var body = 64 * 1024
    package var contacts = 20

    package init() {}

    /// The maximum number of header field values in one message.
    var values: Int { 2 * headerFields }
    /// The maximum number of parameters of one value.
    static let parameters = 64
    /// The maximum number of commas in one Authorization field, because libosip2 reads each part many times.
    static let credentialParts = 64
}
