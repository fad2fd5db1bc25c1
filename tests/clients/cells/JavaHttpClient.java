// Java's own HttpClient with its defaults: it offers an upgrade to HTTP/2 with each request over plain HTTP.
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;

public class JavaHttpClient {
    private static final String URL = System.getenv("CLIENT_URL");
    private static final String KEY = System.getenv("CLIENT_KEY");
    private static final String TEXT = "Where is the train station?";
    private static final String JA = "駅はどこですか？";
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    private interface Cell {
        HttpResponse<String> run() throws Exception;
    }

    private static HttpResponse<String> post(String path, String type, HttpRequest.BodyPublisher body, String key)
            throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(URL + path))
                .header("Authorization", "Bearer " + key)
                .header("Content-Type", type)
                .POST(body)
                .build();
        return CLIENT.send(request, BodyHandlers.ofString());
    }

    private static String form(String text) {
        return "target_lang=JA&text=" + URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    private static String json(String text) {
        return "{\"text\": \"" + text + "\", \"source\": \"en\", \"target\": \"ja\"}";
    }

    private static HttpResponse<String> translate(String key) throws Exception {
        return post("/v1/translate", "application/json", BodyPublishers.ofString(json(TEXT)), key);
    }

    private static String quoted(String text) {
        return "\"" + text.replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"";
    }

    private static void cell(String column, String title, Cell cell) {
        long began = System.nanoTime();
        String reason = "null";
        try {
            HttpResponse<String> answer = cell.run();
            if (answer.statusCode() != 200 || !answer.body().contains(JA)) {
                reason = quoted(answer.statusCode() + ": " + answer.body());
            }
        } catch (Exception error) {
            reason = quoted(error.toString());
        }
        System.out.printf("CELL {\"column\": %s, \"title\": %s, \"reason\": %s, \"took_s\": %.2f}%n",
                quoted(column), quoted(title), reason, (System.nanoTime() - began) / 1e9);
    }

    public static void main(String[] arguments) throws Exception {
        cell("text", "POST of a form to /v2/translate, with a new connection", () ->
                post("/v2/translate", "application/x-www-form-urlencoded", BodyPublishers.ofString(form(TEXT)), KEY));
        cell("text", "the same over the kept connection", () ->
                post("/v2/translate", "application/x-www-form-urlencoded", BodyPublishers.ofString(form(TEXT)), KEY));
        cell("text", "POST of JSON to /v1/translate", () -> translate(KEY));
        cell("text", "a body without a length, in chunks", () -> {
            byte[] body = json(TEXT).getBytes(StandardCharsets.UTF_8);
            HttpClient fresh = HttpClient.newHttpClient();
            HttpRequest request = HttpRequest.newBuilder(URI.create(URL + "/v1/translate"))
                    .header("Authorization", "Bearer " + KEY)
                    .header("Content-Type", "application/json")
                    .POST(BodyPublishers.ofInputStream(() -> new java.io.ByteArrayInputStream(body)))
                    .build();
            return fresh.send(request, BodyHandlers.ofString());
        });
        var refused = Pattern.compile("\"([a-z -]+)\": \"([^\"]+)\"").matcher(System.getenv("CLIENT_REFUSED_KEYS"));
        while (refused.find()) {
            System.out.printf("CELL {\"refused\": %s, \"raises\": null, \"message\": %s}%n",
                    quoted(refused.group(1)), quoted("status " + translate(refused.group(2)).statusCode()));
        }
    }
}
